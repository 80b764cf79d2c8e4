"""Who is master of each broker set, by the controllers or by the NameServers."""
