"""What runs in an executor process: user code, and only here."""
