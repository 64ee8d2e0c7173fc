"""The settings of `lockgate serve`, section by section; `file` reads them. Defaults and documentation stand here."""
