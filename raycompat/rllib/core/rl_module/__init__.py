"""The networks of algorithms, as configs describe them."""
