"""Permissions: approvals, trusted projects, and questions of servers to the user."""
