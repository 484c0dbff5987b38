"""Train with the libraries of Hugging Face."""
