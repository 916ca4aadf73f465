"""The encoder, the span model and its training; torch and transformers are at home here."""
