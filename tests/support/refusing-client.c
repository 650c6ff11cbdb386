/*
 * Loaded into a tmux by its own list of libraries: each client that is to list something says, as many
 * times as TIMES, what one of another version than its server says, and ends with STATUS.
 */
extern long write(int fd, const void *bytes, unsigned long size);
extern void _exit(int status);
extern int strcmp(const char *one, const char *other);

__attribute__((constructor)) static void begin(int argc, char **argv) {
  static const char said[] = "server version is too old for client\n";
  for (int word = 1; word < argc; word++) {
    if (strcmp(argv[word], "list-sessions") != 0) continue;
    for (int time = 0; time < TIMES; time++) write(2, said, sizeof said - 1);
    _exit(STATUS);
  }
}
