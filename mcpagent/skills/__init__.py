"""Agent Skills: folders with instructions in a `SKILL.md`, and with files and scripts."""
