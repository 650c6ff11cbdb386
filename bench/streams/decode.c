/*
 * decode END TMUX ARG...
 *
 * As fast as a control client can be read: runs it, splits its lines, undoes the escapes of each
 * %output into a buffer, and looks for the byte END in what that gives. Says `ready` when something
 * came, and at END how much was decoded, in which time, and at which cost to this process.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

static char input[1 << 20], text[1 << 20];

static double wall(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return now.tv_sec * 1e3 + now.tv_nsec / 1e6;
}

static double cpu(void) {
  struct rusage used;
  getrusage(RUSAGE_SELF, &used);
  return (used.ru_utime.tv_sec + used.ru_stime.tv_sec) * 1e3 +
         (used.ru_utime.tv_usec + used.ru_stime.tv_usec) / 1e3;
}

/* How many bytes the data of one %output line is; they are in `text` then. */
static size_t decode(const char *from, const char *end) {
  char *to = text;
  while (from < end) {
    if (*from == '\\' && end - from > 3) {
      *to++ = (from[1] - '0') << 6 | (from[2] - '0') << 3 | (from[3] - '0');
      from += 4;
    } else
      *to++ = *from++;
  }
  return to - text;
}

int main(int argc, char **argv) {
  int commands[2], output[2];
  if (argc < 3 || pipe(commands) || pipe(output)) return 2;
  if (fork() == 0) {
    dup2(commands[0], 0);
    dup2(output[1], 1);
    close(commands[1]);
    close(output[0]);
    execvp(argv[2], argv + 2);
    _exit(127);
  }
  close(commands[0]);
  close(output[1]);
  size_t held = 0, bytes = 0;
  double began = 0, spent = 0;
  for (;;) {
    ssize_t got = read(output[0], input + held, sizeof input - held);
    if (got <= 0) return 1;
    if (began == 0) puts("ready"), fflush(stdout);
    held += got;
    char *line = input, *stop = input + held, *end;
    for (; (end = memchr(line, '\n', stop - line)) != NULL; line = end + 1) {
      if (end - line < 9 || memcmp(line, "%output %", 9) != 0) continue;
      char *data = memchr(line + 9, ' ', end - line - 9);
      if (data == NULL) continue;
      /* From the first output on: nothing was asked of the pane before. */
      if (bytes == 0) began = wall(), spent = cpu();
      size_t length = decode(data + 1, end);
      bytes += length;
      if (memchr(text, argv[1][0], length) == NULL) continue;
      printf("{\"bytes\":%zu,\"ms\":%f,\"cpuMs\":%f}\n", bytes, wall() - began, cpu() - spent);
      return 0;
    }
    if (began == 0) began = -1;
    held = stop - line;
    if (held == sizeof input) return 3;
    memmove(input, line, held);
  }
}
