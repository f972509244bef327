"""The files of a repository: on disk, in git, at a commit; which are configs, and which patterns leave out."""
