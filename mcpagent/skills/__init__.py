"""Agent Skills: folders with a `SKILL.md` of instructions, and files and scripts that belong to them."""
