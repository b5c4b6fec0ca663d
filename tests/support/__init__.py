"""What tests share: waiting, judges, drivers in processes of their own."""
