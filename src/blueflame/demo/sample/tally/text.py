"""What a text is made of."""


def words(text: str) -> int:
    return len(text.split())
