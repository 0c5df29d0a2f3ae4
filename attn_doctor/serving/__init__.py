"""The commands as tools of the Model Context Protocol, for agents: `attn-doctor mcp`."""
