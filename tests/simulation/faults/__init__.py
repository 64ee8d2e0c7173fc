"""What strikes a run: faults and events, where the plan says, at the steps that the shipped operations take."""
