"""The cute dialect: layout attributes."""
