"""Why a document ranks where it does."""
