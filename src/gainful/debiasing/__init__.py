"""Training on clicks: corrects for what users did not examine."""
