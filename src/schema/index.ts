import './scalars.ts';
import './node.ts';
import './member.ts';
import './tmux-server.ts';
import './tmux-session.ts';
import './tmux-window.ts';
import './tmux-pane.ts';
import './viewer.ts';
import './installation.ts';
import './listing-changed.ts';
import './pane-output.ts';
import './audit.ts';
import './restart.ts';
import './repair.ts';
import './sign-in.ts';
import './restart-idle.ts';
import { builder } from './builder.ts';

export const schema = builder.toSchema();
