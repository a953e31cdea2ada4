import unittest

from tally import text


class TextTest(unittest.TestCase):
    def test_words_are_separated_by_blanks(self) -> None:
        self.assertEqual(3, text.words("one two  three"))
