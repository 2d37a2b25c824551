"""What may run: approvals, trusted projects, what servers ask of a person."""
