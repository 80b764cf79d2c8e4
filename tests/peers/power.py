"""A disk that forgets with the power what nobody has synced: what is left of a process's files when the power fails.

A library that is loaded before all others copies each file that the process syncs, as it is at that moment, to a folder
of its own. Nothing else is certain to be found by the next start.
"""

import subprocess

# Declares what it needs itself, so that a compiler is enough and no headers have to be installed.
_SOURCE = r"""
extern char *getenv(const char *);
extern int snprintf(char *, unsigned long, const char *, ...);
extern long readlink(const char *, char *, unsigned long);
extern char *strrchr(const char *, int);
extern int open(const char *, int, ...);
extern int close(int);
extern int rename(const char *, const char *);
extern long read(int, void *, unsigned long);
extern long write(int, const void *, unsigned long);
extern void *dlsym(void *, const char *);

static void keep(int file) {
    char link[64], name[4096], copy[8192], begun[8192], part[65536];
    snprintf(link, sizeof link, "/proc/self/fd/%d", file);
    long length = readlink(link, name, sizeof name - 1);
    if (length <= 0 || !getenv("SYNCED_FOLDER")) return;
    name[length] = 0;
    snprintf(copy, sizeof copy, "%s%s", getenv("SYNCED_FOLDER"), strrchr(name, '/'));
    snprintf(begun, sizeof begun, "%s.begun", copy);
    int from = open(name, 0), to = open(begun, 01 | 0100 | 01000, 0600);
    for (long got; (got = read(from, part, sizeof part)) > 0;) if (write(to, part, got) != got) break;
    close(from);
    close(to);
    rename(begun, copy);  /* a process that is killed meanwhile leaves the copy before */
}

int fsync(int file) {
    int result = ((int (*)(int)) dlsym((void *) -1, "fsync"))(file);
    if (result == 0) keep(file);
    return result;
}

int fdatasync(int file) {
    int result = ((int (*)(int)) dlsym((void *) -1, "fdatasync"))(file);
    if (result == 0) keep(file);
    return result;
}
"""


class Power:
    """Supplies the processes with its `environment`."""

    def __init__(self, folder):
        self._synced = folder / "synced"
        self._synced.mkdir()
        source, library = folder / "power.c", folder / "power.so"
        source.write_text(_SOURCE)
        subprocess.run(["cc", "-shared", "-fPIC", "-O1", "-w", "-o", library, source], check=True)
        self.environment = {"LD_PRELOAD": str(library), "SYNCED_FOLDER": str(self._synced)}

    def failed(self, folder):
        """Return the folder that is found in place of this one: the same names, with what was synced of each."""
        left = folder.with_name(f"{folder.name}.left")
        left.mkdir()
        for file in folder.iterdir():
            synced = self._synced / file.name
            (left / file.name).write_bytes(synced.read_bytes() if synced.exists() else b"")
        return left
