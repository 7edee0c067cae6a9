"""The command line: its flags, the settings that have names, the programs by name, and how each begins and ends."""
