"""The nouns: frozen values that every other floor speaks in. Nothing here touches the world."""
