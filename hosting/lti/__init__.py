"""The course as an LTI 1.3 tool of a learning platform such as Canvas or Moodle: sign-in, links to problems, marks, and
who is in the class."""
