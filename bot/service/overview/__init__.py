"""What people see of the threads: lists, one thread in detail, and costs, all computed from the journals."""
