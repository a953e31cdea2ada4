"""The first wall: may this tool call be made? Pure."""
