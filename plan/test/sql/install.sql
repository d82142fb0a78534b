-- The extension is installed, its library is the one that was built, and its settings are known.
SELECT extname, extversion FROM pg_extension WHERE extname = 'ccopt';
SELECT name, setting FROM pg_settings WHERE name IN ('ccopt.enabled', 'ccopt.buffer', 'ccopt.force') ORDER BY name;
SET ccopt.enabeld = on;  -- misspelled
