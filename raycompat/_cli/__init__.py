"""What the command line does: clusters that outlive the command, and what is known of them."""
