"""Elections and role changes: who requests them, who carries them out, what is remembered of them."""
