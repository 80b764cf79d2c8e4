"""What the policies of queue scaling would have done with the recorded history: `rmq scaling dry-run`."""
