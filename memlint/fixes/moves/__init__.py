"""The changes that the planner may try, such as a smaller batch or another checkpointing mode."""
