"""Gold sets, pieces of the encoder, windows, batches and decoding."""
