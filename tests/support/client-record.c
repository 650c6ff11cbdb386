/*
 * Loaded into a tmux by its own list of libraries: writes a line for each connection that a client of
 * it makes, with the client's binary, the process that listens, that process's binary, and the words of
 * the client's command line. Declares what it takes of libc by hand, so that a compiler is all it needs.
 */
extern int open(const char *path, int flags, int mode);
extern long write(int fd, const void *bytes, unsigned long size);
extern int close(int fd);
extern long readlink(const char *path, char *into, unsigned long size);
extern int getsockopt(int fd, int level, int name, void *value, unsigned int *size);
extern int snprintf(char *into, unsigned long size, const char *format, ...);
extern int __connect(int fd, const void *address, unsigned int size);

enum { O_WRONLY_CREAT_APPEND = 01 | 0100 | 02000, SOL_SOCKET = 1, SO_PEERCRED = 17 };

static char words[4096];

__attribute__((constructor)) static void begin(int argc, char **argv) {
  unsigned long at = 0;
  for (int word = 0; word < argc && at < sizeof words - 2; word++) {
    if (word > 0) words[at++] = ' ';
    for (const char *c = argv[word]; *c && at < sizeof words - 2; c++)
      words[at++] = *c < ' ' && *c >= 0 ? '?' : *c;
  }
}

static const char *binary(const char *link, char *into, unsigned long size) {
  long length = readlink(link, into, size - 1);
  into[length < 0 ? 0 : length] = 0;
  return into;
}

int connect(int fd, const void *address, unsigned int size) {
  int result = __connect(fd, address, size);
  int peer[3] = {0, 0, 0};
  unsigned int peer_size = sizeof peer;
  if (result != 0 || getsockopt(fd, SOL_SOCKET, SO_PEERCRED, peer, &peer_size) != 0) return result;
  char link[64], own[1024], theirs[1024], line[8192];
  snprintf(link, sizeof link, "/proc/%d/exe", peer[0]);
  int length = snprintf(line, sizeof line, "%s\t%d\t%s\t%s\n", binary("/proc/self/exe", own, sizeof own),
                        peer[0], binary(link, theirs, sizeof theirs), words);
  int record = open(RECORD, O_WRONLY_CREAT_APPEND, 0666);
  write(record, line, length);
  close(record);
  return result;
}
