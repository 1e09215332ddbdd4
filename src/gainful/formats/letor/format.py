"""LETOR/SVMlight text: the functions that :mod:`gainful.formats` calls."""

from gainful.formats.letor.reader import read as read
from gainful.formats.letor.stream import open_source as open_source
from gainful.formats.letor.writer import open_writer as open_writer
