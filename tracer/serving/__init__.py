"""What a server needs: every shape compiled before it comes, proved; what happens at a miss; what was compiled, and why."""
