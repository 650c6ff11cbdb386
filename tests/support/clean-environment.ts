// A test never sees the tmux server or the settings of whoever runs it.
for (const name of Object.keys(process.env)) {
  if (/^(TMUX|MUXWARDEN_(?!TEST_))/.test(name) || name === 'DATABASE_URL') delete process.env[name];
}
