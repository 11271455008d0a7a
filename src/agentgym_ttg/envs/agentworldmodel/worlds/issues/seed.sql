INSERT INTO developer VALUES
  ('developer 1', 'Ada Quist', 20),
  ('developer 2', 'Ben Oduya', 40),
  ('developer 3', 'Cleo Marsh', 10),
  ('developer 4', 'Dov Levin', 30),
  ('developer 5', 'Elin Strand', 0),
  ('developer 6', 'Femi Ade', 20);
INSERT INTO issue VALUES
  ('issue 1', 'Login fails', '', 'open', 2),
  ('issue 2', 'Slow search', 'developer 2', 'assigned', 3),
  ('issue 3', 'Typo in footer', '', 'open', 1),
  ('issue 4', 'Crash on save', 'developer 3', 'assigned', 2),
  ('issue 5', 'Broken link', '', 'open', 3),
  ('issue 6', 'Missing icon', 'developer 4', 'assigned', 1),
  ('issue 7', 'Wrong total', '', 'open', 2),
  ('issue 8', 'Stale cache', 'developer 5', 'assigned', 3),
  ('issue 9', 'Bad redirect', '', 'open', 1),
  ('issue 10', 'Lost session', 'developer 6', 'assigned', 2),
  ('issue 11', 'Dark mode', '', 'open', 3),
  ('issue 12', 'Export to CSV', 'developer 1', 'assigned', 1);
