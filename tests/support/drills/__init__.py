"""What drills share."""
