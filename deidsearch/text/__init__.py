"""Text: tokens, sentences and offsets into the original."""
