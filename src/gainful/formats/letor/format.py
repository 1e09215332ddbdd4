"""LETOR/SVMlight text, as :mod:`gainful.formats` calls it."""

from gainful.formats.letor.reader import read as read
from gainful.formats.letor.stream import open_source as open_source
from gainful.formats.letor.writer import open_writer as open_writer
