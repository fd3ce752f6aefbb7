"""Reading and writing a thread's journal, and noticing that another process writes to it or set it back."""
