/*
 * Loaded into a tmux by its own list of libraries: each client that the helper starts ignores SIGTERM,
 * leaves a process that belongs to nobody and holds the output, and never says anything.
 */
extern int fork(void);
extern int setsid(void);
extern int pause(void);
extern void *signal(int number, void *handler);
extern void _exit(int status);
extern int strcmp(const char *one, const char *other);

__attribute__((constructor)) static void begin(int argc, char **argv) {
  for (int word = 1; word < argc; word++) {
    if (strcmp(argv[word], "-N") != 0) continue;
    signal(15, (void *)1);
    if (fork() == 0) {
      setsid();
      if (fork() != 0) _exit(0);
      for (;;) pause();
    }
    for (;;) pause();
  }
}
