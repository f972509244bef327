"""Many files: worker processes, reports merged and kept in little memory, results kept between checks."""
