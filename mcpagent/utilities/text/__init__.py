"""Clean, redact and format texts before they are shown, sent or stored."""
