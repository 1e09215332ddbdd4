"""JSON Lines: the functions that :mod:`gainful.formats` calls. Conversion reads such files whole."""

from gainful.formats.json_lines.reader import columns as columns
from gainful.formats.json_lines.reader import read as read
from gainful.formats.json_lines.writer import open_writer as open_writer
