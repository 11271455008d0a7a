INSERT INTO reviewer VALUES
  ('reviewer 1', 'Ada Quist', 20),
  ('reviewer 2', 'Ben Oduya', 40),
  ('reviewer 3', 'Cleo Marsh', 10),
  ('reviewer 4', 'Dov Levin', 30),
  ('reviewer 5', 'Elin Strand', 0),
  ('reviewer 6', 'Femi Ade', 20);
INSERT INTO claim VALUES
  ('claim 1', 'Train to Bern', '', 'filed', 2),
  ('claim 2', 'Hotel in Porto', 'reviewer 2', 'reviewing', 3),
  ('claim 3', 'Team lunch', '', 'filed', 1),
  ('claim 4', 'Office chair', 'reviewer 3', 'reviewing', 2),
  ('claim 5', 'Phone bill', '', 'filed', 3),
  ('claim 6', 'Parking', 'reviewer 4', 'reviewing', 1),
  ('claim 7', 'Book fair', '', 'filed', 2),
  ('claim 8', 'Taxi ride', 'reviewer 5', 'reviewing', 3),
  ('claim 9', 'Printer ink', '', 'filed', 1),
  ('claim 10', 'Visa fee', 'reviewer 6', 'reviewing', 2),
  ('claim 11', 'Workshop', '', 'filed', 3),
  ('claim 12', 'Coffee beans', 'reviewer 1', 'reviewing', 1);
