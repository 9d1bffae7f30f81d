"""A module that does not import."""

import no_such_module_anywhere  # noqa
