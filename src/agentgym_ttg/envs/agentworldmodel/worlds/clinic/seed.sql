INSERT INTO patient VALUES
  ('patient 1', 'Ada Quist', 20),
  ('patient 2', 'Ben Oduya', 40),
  ('patient 3', 'Cleo Marsh', 10),
  ('patient 4', 'Dov Levin', 30),
  ('patient 5', 'Elin Strand', 0),
  ('patient 6', 'Femi Ade', 20);
INSERT INTO slot VALUES
  ('slot 1', 'Monday eight', '', 'open', 2),
  ('slot 2', 'Monday nine', 'patient 2', 'booked', 3),
  ('slot 3', 'Monday ten', '', 'open', 1),
  ('slot 4', 'Tuesday eight', 'patient 3', 'booked', 2),
  ('slot 5', 'Tuesday nine', '', 'open', 3),
  ('slot 6', 'Tuesday ten', 'patient 4', 'booked', 1),
  ('slot 7', 'Friday eight', '', 'open', 2),
  ('slot 8', 'Friday nine', 'patient 5', 'booked', 3),
  ('slot 9', 'Friday ten', '', 'open', 1),
  ('slot 10', 'Sunday eight', 'patient 6', 'booked', 2),
  ('slot 11', 'Sunday nine', '', 'open', 3),
  ('slot 12', 'Sunday ten', 'patient 1', 'booked', 1);
