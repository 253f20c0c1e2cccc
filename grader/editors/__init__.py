"""The course inside other programs: editors and AI assistants. Each module translates; none grades, and nothing below
imports it.

`tutor.py` answers an assistant in text, and `tutor_server.py` serves that over the Model Context Protocol.
`language.py` describes a file for an editor, and `language_server.py` serves that over the Language Server Protocol.
"""
