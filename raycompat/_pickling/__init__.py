"""Values as bytes and back: pickles, the buffers beside them, tensors."""
