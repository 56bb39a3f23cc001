"""What each GPU architecture has: features, limits, PTX versions, MMA atoms."""
