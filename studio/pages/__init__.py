"""The pages of the studio: each is a module with its routes and a template."""
